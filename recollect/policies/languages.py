"""Languages besides English in which words are stemmed, and how people ask in them and name times.

One row a language, read when it is first used. A language of which only the stemmer is known has just that. Words are
written here as people write them; accents and endings do not matter, since they are folded and stemmed before use.
In `times`, they stand in the order of `TIMES`, with a slash between ways to say one, an underscore for a space, and -
where one is missing or mostly means something else.
"""

from __future__ import annotations

import re
from typing import NamedTuple

TIMES = """
    january february march april may june july august september october november december
    monday tuesday wednesday thursday friday saturday sunday
    day week weekend month year spring summer autumn winter
    one two three four five six seven eight nine ten several
    today yesterday tomorrow last next this since before after in ago between and of
"""
"""What each word of `times` is in English. Where a word means two of them, it stands at the first."""


class Language(NamedTuple):
    """What is known of a language. Phrases are separated by commas."""

    stemmer: str
    """The name of its algorithm in Snowball."""
    asking: str = ""
    """Words that begin a question. They are not searched for, no more than those in `stop`."""
    stop: str = ""
    """Words that say nothing about what is searched for."""
    you: str = ""
    """Words for the one who is asked, which are not searched for either."""
    when: str = ""
    """How a question begins that asks for a time."""
    many: str = ""
    """What a question has in it that asks for a number."""
    latest: str = ""
    """What a question has in it that asks for how things are now."""
    times: str = ""
    """The words of `TIMES` in this language."""
    respelled: tuple[tuple[str, str], ...] = ()
    """Endings without their accents, and what the stemmer knows them as; the first that fits is replaced."""


LANGUAGES: dict[str, Language] = {
    "de": Language(
        "german",
        """
        wer wen wem wessen was wann wo wohin woher wie warum wieso weshalb welche welcher welches welchen welchem
        womit wofür worüber woran worauf wovon wozu wodurch
        """,
        """
        der die das den dem des ein eine einen einem einer eines kein keine keinen keinem keiner ich mich mir mein
        meine meinen meinem meiner meines wir uns unser unsere unseren unserem unserer unseres er ihn ihm sein seine
        seinen seinem seiner seines sie ihnen ihre ihren ihrem ihrer ihres es man sich selbst und oder aber denn
        sondern doch weil dass wenn als ob obwohl damit dann also auch noch schon nur sehr so ja nein nicht in im
        ins an am ans auf aus bei beim mit nach von vom zu zum zur für über unter durch um gegen ohne bis hier dort
        da dieser diese dieses diesen diesem jener jene jenes alle alles allem jeder jede jedes mal eigentlich bin
        bist ist sind seid war warst waren gewesen habe hab hast hat haben habt hatte hattest hatten gehabt werde
        wirst wird werden wurde wurden worden kann kannst können konnte konnten soll sollte sollen will wollte
        wollen muss musste müssen darf mag möchte würde würden gibt gab viel viele art sag sage erzähl erinnere
        bitte nochmal
        """,
        "du dich dir dein deine deinen deinem deiner deines ihr euch euer eure",
        """
        wann, welchem tag, welchem datum, welchem jahr, welchem monat, wie viel uhr, wieviel uhr, wie lange, wie
        lang
        """,
        "wie viel, wie viele, wieviel, wieviele, wie oft, wie alt, wie hoch",
        """
        aktuell, aktuelle, aktueller, aktuellen, aktuelles, derzeit, zurzeit, zur zeit, momentan, im moment, gerade,
        heutzutage, neueste, neuesten, neuester, neuestes, jüngste, jüngsten, zuletzt, letztes mal, das letzte mal,
        bisher, inzwischen
        """,
        """
        januar/jänner februar märz april mai juni juli august september oktober november dezember montag dienstag
        mittwoch donnerstag freitag samstag/sonnabend sonntag tag woche wochenende monat jahr frühling/frühjahr
        sommer herbst winter ein zwei drei vier fünf sechs sieben acht neun zehn einige/paar/mehrere heute gestern
        morgen letzte/vergangene/vorige nächste/kommende diese seit vor nach im/in - zwischen und -
        """,
    ),
    "fr": Language(
        "french",
        """
        qui que quoi quand où comment pourquoi quel quelle quels quelles lequel laquelle lesquels combien est-ce
        """,
        """
        le la les un une des du de d' au aux ce cet cette ces cela ça c' ci là celui celle ceux je j' me m' moi mon
        ma mes nous notre nos il elle on lui se s' soi son sa ses ils elles eux leur leurs y en et ou mais donc or
        ni car si comme parce puisque afin ne n' pas plus non oui aussi encore déjà très trop bien à dans sur sous
        par pour sans avec chez vers entre contre depuis jusque avant après pendant suis es est sommes êtes sont
        étais était étions étiez étaient serai sera serait fut être ai as a avons avez ont avais avait avions aviez
        avaient aurai aura aurait eu eue avoir t fais fait faire faisait peux peut pouvez pouvait peuvent veux veut
        voulais voudrais dois doit devais vais va vas vont aller tout toute tous toutes même autre rien quelque
        chose genre sorte dis dire dites rappelle rappeler stp svp plaît qu' quelqu' lorsque lors alors puis y-a
        """,
        "tu te toi ton ta tes vous votre vos",
        """
        quand, quel jour, quelle date, quelle heure, quelle année, quel mois, combien de temps, depuis combien
        """,
        "combien, quel âge, quel nombre",
        """
        actuel, actuelle, actuels, actuelles, actuellement, en ce moment, dernièrement, récemment, ces jours ci,
        aujourd'hui, dernière fois, jusqu'ici, désormais, plus récent, plus récente, maintenant
        """,
        """
        janvier février mars avril mai juin juillet août septembre octobre novembre décembre lundi mardi mercredi
        jeudi vendredi samedi dimanche jour semaine weekend/week_end mois an/année printemps - automne hiver un deux
        trois quatre cinq six sept huit - dix plusieurs/quelques aujourd'hui hier demain dernier/dernière/passé
        prochain/prochaine ce/cette depuis avant après en/au il_y_a entre et de
        """,
        (("ees", "é"), ("ee", "é"), ("iere", "ière"), ("ieres", "ières")),
    ),
    "es": Language(
        "spanish",
        "qué quién quiénes cuándo dónde adónde cómo cuál cuáles cuánto cuánta cuántos cuántas",
        """
        el la lo los las un una unos unas al del este esta esto estos estas ese esa eso esos esas aquel aquella yo
        me mí mi mis mío mía míos mías nosotros nos nuestro nuestra nuestros nuestras él ella ello ellos ellas le
        les se sí su sus y e o u pero sino porque pues si como aunque mientras que quien cual donde cuando ni no
        también tampoco muy más ya aún todavía a ante bajo con contra de desde en entre hacia hasta para por según
        sin sobre tras durante conmigo contigo soy eres es somos son era eras eran éramos fui fue fueron fuiste ser
        sido sea estoy está estás estamos están estaba estaban estar he has ha hemos han había habían haber hay hubo
        tengo tienes tiene tenemos tienen tenía tener puedo puede puedes podía poder quiero quiere quería debo debe
        hago hace hacer hizo hice voy va vas vamos van iba ir todo toda todos todas algo alguien algún alguna otro
        otra mismo misma tan tanto tipo dime di recuérdame recuerda favor
        """,
        "tú te ti tu tus tuyo tuya usted ustedes vos os vosotros vuestro vuestra",
        "cuándo, qué día, qué fecha, qué hora, qué año, qué mes, cuánto tiempo, hace cuánto",
        "cuánto, cuánta, cuántos, cuántas, qué edad, cada cuánto",
        """
        actual, actuales, actualmente, ahora, ahora mismo, hoy en día, últimamente, recientemente, más reciente,
        último, última, hasta ahora, en este momento
        """,
        """
        enero febrero marzo abril mayo junio julio agosto septiembre/setiembre octubre noviembre diciembre lunes
        martes miércoles jueves viernes sábado domingo día/días semana finde/fin_de_semana mes año primavera verano
        otoño invierno un/uno/una dos tres cuatro cinco seis siete ocho nueve diez varios/varias/unos/unas hoy ayer
        mañana pasado/pasada/último/última próximo/próxima este/esta desde antes después/tras en hace entre y de
        """,
        (("ias", "ías"), ("ia", "ía"), ("ian", "ían"), ("iamos", "íamos"), ("i", "í")),
    ),
    "it": Language(
        "italian",
        "chi che cosa cos' quando dove dov' come com' perché quale quali qual quanto quanta quanti quante",
        """
        il lo la i gli le un uno una l' dell' del dello della dei degli delle al allo alla ai agli alle dal dallo
        dalla dai dalle nel nello nella nei nelle sul sullo sulla sui sulle questo questa questi queste quello
        quella quelli quelle quel ciò io mi me mio mia miei mie noi ci ce nostro nostra nostri nostre lui lei egli
        ella esso essa loro si se sé suo sua suoi sue ne e ed o ma però anche ancora già non no sì né poi quindi
        perciò mentre più molto molta molti molte tanto troppo solo a ad da di in con su per tra fra senza verso
        fino dopo prima sono sei è siamo siete era eri erano ero stato stata stati state essere fu sarà sia c'è ho
        hai ha abbiamo avete hanno avevo aveva avevano avere avuto sto sta stai stanno stavo stava posso può puoi
        poteva voglio vuole vuoi vorrei volevo devo deve dovevo faccio fa fai fare fatto vado va vai andare tutto
        tutta tutti tutte qualcosa qualche altro altra tipo genere dimmi dire ricordami ricorda favore
        """,
        "tu ti te tuo tua tuoi tue voi vi vostro vostra vostri vostre",
        """
        quando, che giorno, quale giorno, che data, che ora, a che ora, che anno, che mese, quale anno, quanto
        tempo, da quanto
        """,
        "quanto, quanta, quanti, quante, che età, ogni quanto",
        """
        attuale, attuali, attualmente, adesso, ora, al momento, in questo momento, ultimamente, recentemente, più
        recente, ultima volta, finora, oggigiorno
        """,
        """
        gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre lunedì martedì
        mercoledì giovedì venerdì sabato domenica giorno/giorni settimana weekend/fine_settimana mese anno primavera
        estate autunno inverno un/uno/una due tre quattro cinque - sette otto nove dieci alcuni/alcune/qualche oggi
        ieri domani scorso/scorsa/passato/passata/ultimo/ultima prossimo/prossima questo/questa da/dal prima/entro
        dopo in/a/nel/ad fa tra/fra e di/del
        """,
    ),
    "pt": Language(
        "portuguese",
        "quem que quê quando onde aonde como porque porquê qual quais quanto quanta quantos quantas",
        """
        o a os as um uma uns umas ao aos à às do da dos das no na nos nas pelo pela pelos pelas num numa dum duma
        este esta isto estes estas esse essa isso esses essas aquele aquela aquilo aqueles aquelas eu me mim meu
        minha meus minhas nós nosso nossa nossos nossas ele ela eles elas lhe lhes se si seu sua seus suas dele dela
        deles delas e ou mas pois embora nem não sim também já ainda muito muita muitos muitas mais menos só tão
        ante até com contra de desde em entre para pra por perante sem sob sobre após durante comigo contigo sou és
        é somos são era eras eram fui foi foram ser sido seja estou está estás tá tô estamos estão estava estavam
        estar esteve hei há havia houve tenho tem tens temos têm tinha tinham ter teve tive vou vai vais vamos vão
        ia ir posso pode podes podia quero quer queria devo deve faço faz fazer fez fiz fazia tudo todo toda todos
        todas algo alguém algum alguma outro outra mesmo mesma tipo diz diga dizer lembra lembre favor
        """,
        "tu te ti teu tua teus tuas você vocês vos vosso vossa",
        """
        quando, que dia, qual dia, que data, que horas, que ano, que mês, qual data, quanto tempo, há quanto
        """,
        "quanto, quanta, quantos, quantas, que idade, qual idade",
        """
        atual, atuais, actual, atualmente, actualmente, agora, neste momento, no momento, hoje em dia, ultimamente,
        recentemente, mais recente, última vez, até agora
        """,
        """
        janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro
        segunda/segunda_feira terça/terça_feira quarta/quarta_feira quinta/quinta_feira sexta/sexta_feira sábado
        domingo dia/dias semana fds/fim_de_semana mês/meses ano primavera verão outono inverno um/uma dois/duas três
        quatro cinco seis sete oito nove dez vários/várias/alguns/algumas hoje ontem amanhã
        passado/passada/último/última próximo/próxima este/esta desde antes depois/após em/no há/atrás/faz entre e
        de
        """,
        (("coes", "ção"), ("cao", "ção"), ("oes", "ao"), ("aes", "ao"), ("ns", "m")),
    ),
    "nl": Language(
        "dutch",
        "wie wat wanneer waar waarom waarheen waarvoor waarmee waarover hoe welk welke wiens hoeveel",
        """
        de het een 't 'n den der des dit dat deze die geen ik me mij mijn m'n mijne wij we ons onze hij hem zijn z'n
        zij ze haar hun hen zich zelf er men iemand iets niets en of maar want dus omdat als dan toen terwijl hoewel
        ook nog al wel niet nee ja zo zo'n heel erg veel vele te in op aan van voor met bij uit naar om over onder
        door tegen tot na sinds tijdens zonder tussen af ben bent is was waren geweest wees heb hebt heeft hebben
        had hadden gehad word wordt worden werd werden geworden kan kun kunt kunnen kon konden zal zult zullen zou
        zouden wil wilt willen wilde moet moeten moest mag mogen mocht ga gaat gaan ging doe doet doen deed gedaan
        hier daar alle alles elke andere soort eens even nou zeg vertel vertelde herinner alsjeblieft
        """,
        "jij je jou jouw u uw jullie",
        "wanneer, welke dag, welke datum, hoe laat, welk jaar, welke maand, hoe lang, hoelang, sinds wanneer",
        "hoeveel, hoe veel, hoe vaak, hoe oud",
        """
        huidige, huidig, momenteel, tegenwoordig, op dit moment, nu, nieuwste, laatst, laatste keer, meest recente,
        recentste, tot nu toe, onlangs, actuele
        """,
        """
        januari februari maart april mei juni juli augustus september oktober november december maandag dinsdag
        woensdag donderdag vrijdag zaterdag zondag dag/dagen week/weken weekend/weekeinde maand jaar lente/voorjaar
        zomer herfst/najaar winter een/één twee drie vier vijf zes zeven acht negen tien enkele/paar/aantal vandaag
        gisteren morgen vorige/afgelopen/laatste volgende/komende deze/dit sinds voor na in geleden tussen en -
        """,
    ),
    "sv": Language(
        "swedish",
        "vem vems vad när var vart varifrån hur varför vilken vilket vilka",
        """
        en ett den det de dem denna detta dessa jag mig min mitt mina vi oss vår vårt våra han honom hans hon henne
        hennes sig sin sitt sina deras man själv och eller men för att som om eftersom då så också även bara mycket
        många inte nej ja redan än ännu i på av till från med vid hos ut ur in över under genom mot utan efter före
        mellan är var varit vara blir blev bli blivit har hade ha haft kan kunde ska skall skulle vill ville måste
        får fick gör gjorde göra gjort här där alla allt andra sorts slags någon något några ju nog berätta säg
        påminn snälla
        """,
        "du dig din ditt dina ni er ert era",
        "när, vilken dag, vilket datum, vilket år, vilken månad, vilken tid, hur dags, hur länge, sedan när",
        "hur många, hur mycket, hur ofta, hur gammal, hur gamla",
        """
        nuvarande, just nu, för tillfället, numera, nuförtiden, senaste, senast, nyaste, hittills, förra gången, för
        närvarande, aktuell, nu
        """,
        """
        januari februari mars april maj juni juli augusti september oktober november december måndag tisdag onsdag
        torsdag fredag lördag söndag dag vecka/veckan/veckor/veckorna helg månad år - sommar höst vinter en/ett två
        tre fyra fem sex sju åtta nio tio några/flera idag/i_dag igår/i_går imorgon/i_morgon förra/senaste nästa
        denna sedan före/innan efter i - mellan och -
        """,
    ),
    "da": Language(
        "danish",
        "hvem hvis hvad hvornår hvor hvorfra hvorhen hvordan hvorfor hvilken hvilket hvilke",
        """
        en et den det de dem denne dette disse jeg mig min mit mine vi os vores han ham hans hun hende hendes sig
        sin sit sine deres man selv og eller men for at som om fordi da så også kun meget mange ikke nej ja allerede
        endnu jo i på af til fra med ved hos ud ind over under gennem mod uden efter før mellem er var været være
        bliver blev blive har havde have haft kan kunne skal skulle vil ville må måtte får fik gør gjorde gøre gjort
        her der alle alt andre slags nogen noget nogle fortæl mind lige venligst
        """,
        "du dig din dit dine jer jeres",
        "hvornår, hvilken dag, hvilken dato, hvilket år, hvilken måned, hvad tid, hvor længe, siden hvornår",
        "hvor mange, hvor meget, hvor ofte, hvor gammel, hvor gamle",
        """
        nuværende, lige nu, for tiden, i øjeblikket, nutildags, seneste, senest, nyeste, hidtil, sidste gang,
        aktuel, aktuelle, nu
        """,
        """
        januar februar marts april maj juni juli august september oktober november december mandag tirsdag onsdag
        torsdag fredag lørdag søndag dag/dage uge/uger/ugen weekend måned år forår sommer efterår vinter en/et to
        tre fire fem seks syv otte ni ti nogle/flere idag/i_dag igår/i_går imorgen/i_morgen sidste/forrige næste
        denne/dette siden før/inden efter i - mellem og -
        """,
    ),
    "no": Language(
        "norwegian",
        "hvem hvis hva når hvor hvorfra hvordan hvorfor hvilken hvilket hvilke åssen",
        """
        en et ei den det de dem denne dette disse jeg meg min mitt mine mi vi oss vår vårt våre han ham hans hun
        henne hennes seg sin sitt sine deres man selv og eller men for å at som om fordi da så også bare kun mye
        mange ikke nei ja allerede ennå jo i på av til fra med ved hos ut inn over under gjennom mot uten etter før
        mellom er var vært være blir ble bli blitt har hadde ha hatt kan kunne skal skulle vil ville må måtte får
        fikk gjør gjorde gjøre gjort her der alle alt andre slags noen noe fortell si minn vennligst
        """,
        "du deg din ditt dine dere deres",
        "når, hvilken dag, hvilken dato, hvilket år, hvilken måned, hva klokka, hvor lenge, siden når",
        "hvor mange, hvor mye, hvor ofte, hvor gammel, hvor gamle",
        """
        nåværende, akkurat nå, for tiden, for øyeblikket, nåtildags, siste, sist, nyeste, hittil, forrige gang,
        aktuell, nå
        """,
        """
        januar februar mars april mai juni juli august september oktober november desember mandag tirsdag onsdag
        torsdag fredag lørdag søndag dag uke/uker/uken/ukene helg måned år - sommer høst vinter en/et/ei to tre fire
        fem seks sju/syv åtte ni ti noen/flere idag/i_dag igår/i_går imorgen/i_morgen siste/forrige neste
        denne/dette siden før/innen etter i - mellom og -
        """,
    ),
    "fi": Language(
        "finnish",
        """
        kuka kenen ketä kenet kenelle keneltä kenellä mikä mitä mitkä minkä missä mistä mihin millä miltä mille
        milloin koska miten kuinka miksi kumpi millainen millaisia minne montako paljonko
        """,
        """
        minä mä minun mun minua mua minulla mulla minulle mulle minusta minut me meidän meitä meillä meille hän
        hänen häntä hänellä hänelle he heidän heitä heillä se sen sitä siinä siitä siihen sillä ne niiden niitä
        niissä niistä tämä tämän tätä tässä tästä nämä näiden tuo tuon nuo itse ja tai vai mutta että kun jos vaikka
        niin kuin myös vain vielä jo hyvin paljon ei en et emme eivät ole kyllä joo olen on olet olemme ovat oli
        olin olit olivat ollut olla olisi voin voi voit voisi pitää piti täytyy haluan haluaa saa sai täällä siellä
        kaikki jokin joku joka jotka jonka jota jossa muu mukaan kanssa laji sano kerro muistuta
        """,
        "sinä sä sinun sun sinua sua sinulla sulla sinulle sulle te teidän teitä",
        """
        milloin, koska, minä päivänä, minä vuonna, mihin aikaan, missä kuussa, kuinka kauan, kauanko, mistä lähtien
        """,
        "montako, kuinka monta, kuinka paljon, paljonko, kuinka usein, kuinka vanha, minkä ikäinen",
        """
        nykyinen, nykyisen, nykyään, tällä hetkellä, juuri nyt, viimeksi, viimeisin, uusin, tähän mennessä, nyt,
        toistaiseksi
        """,
        """
        tammikuu helmikuu maaliskuu huhtikuu toukokuu kesäkuu heinäkuu elokuu syyskuu lokakuu marraskuu joulukuu
        maanantai/maanantaina tiistai/tiistaina keskiviikko torstai/torstaina perjantai/perjantaina
        lauantai/lauantaina sunnuntai/sunnuntaina päivä/päivää viikko/viikkoa viikonloppu/viikonloppuna
        kuukausi/kuukautta/kuussa vuosi/vuonna/vuotta kevät/keväällä kesä/kesällä syksy/syksyllä talvi/talvella
        yksi/yhden kaksi/kahden kolme/kolmen neljä viisi/viiden kuusi/kuuden seitsemän kahdeksan yhdeksän kymmenen
        muutama tänään eilen huomenna viime ensi tämä/tällä lähtien ennen jälkeen - sitten välillä ja -
        """,
    ),
    "ru": Language(
        "russian",
        """
        кто кого кому кем ком что чего чему чем чём когда где куда откуда как почему зачем какой какая какое какие
        какого какую каким каких каком который которая которое которого чей чья чьё чьи сколько ли
        """,
        """
        я меня мне мной мой моя моё мои моего моей моему моим моих мою моём мы нас нам нами наш наша наше наши
        нашего нашей нашу нашем он его него ему нему им ним нём она её ней неё ей оно они их них ими ними свой своя
        своё свои своего своей свою своём своих себя себе собой сам сама само сами этот эта это эти этого этой эту
        этом этих тот та то те того той ту том тех и а но или да нет не ни же бы ведь вот ещё уже тоже также только
        очень так там тут здесь если чтобы потому что хотя в во на с со к ко по о об обо от до из у за для при про
        без под над между через после перед быть был была было были есть будет буду будем будут является можно могу
        может мог могла надо нужно хочу хочет хотел хотела весь вся всё все всего всех какой-то что-то кто-то такой
        такая такое такие скажи расскажи напомни пожалуйста
        """,
        "ты тебя тебе тобой твой твоя твоё твои твоего твоей твою твоём вы вас вам вами ваш ваша ваше ваши",
        """
        когда, в какой день, какого числа, в каком году, в каком месяце, во сколько, какая дата, сколько времени,
        как долго, как давно, с каких пор, в какое время
        """,
        "сколько, как часто, какой возраст, как много",
        """
        сейчас, теперь, нынешний, нынешняя, нынешнее, текущий, текущая, текущее, в настоящее время, на данный
        момент, в последнее время, последний раз, в последний раз, недавно, самый новый, пока
        """,
        """
        январь февраль март апрель май июнь июль август сентябрь октябрь ноябрь декабрь понедельник вторник среда
        четверг пятница суббота воскресенье день/дня/дней/дни неделя/недель выходные месяц год/лет весна/весной
        лето/летом осень/осенью зима/зимой один/одна/одну два/две/двух три/трёх четыре пять шесть семь восемь девять
        десять несколько/пару сегодня вчера завтра прошлый/прошлая/прошлое/последний/последние/минувший
        следующий/будущий этот/эта/это/этой/этом с до после в/во назад между и -
        """,
    ),
    "pl": Language(
        "polish",
        """
        kto kogo komu kim co czego czemu czym kiedy gdzie dokąd skąd jak dlaczego jaki jaka jakie jakiego jakiej
        jaką jakich jakim który która które którego której którą czyj czyja ile ilu czy
        """,
        """
        ja mnie mi mną mój moja moje mojego mojej mojemu moim moją moich my nas nam nami nasz nasza nasze naszego
        naszej naszą on jego go jemu mu nim ona jej ją nią niej ono oni one ich im nimi swój swoja swoje swojego
        swojej swoją swoim się siebie sobie sobą ten ta to ci te tego tej tę tą tym tych tamten tamta i a ale lub
        albo oraz nie tak no też także tylko bardzo już jeszcze że żeby bo ponieważ jeśli gdy choć więc w we na z ze
        do od dla po o przy przez pod nad za bez u przed między podczas być jestem jesteś jest jesteśmy są był była
        było byli byłam byłem będę będzie mam masz ma mamy mają miałem miałam miał miała mieć mogę może możesz mógł
        chcę chce chciałem chciałam muszę musi trzeba tu tutaj tam wszystko wszystkie każdy coś ktoś jakiś jakaś
        powiedz przypomnij proszę rodzaj
        """,
        "ty ciebie cię tobie ci tobą twój twoja twoje twojego twojej twoją twoim wy was wam pan pani",
        """
        kiedy, którego dnia, jakiego dnia, w jaki dzień, jaka data, w którym roku, w jakim miesiącu, o której, jak
        długo, od kiedy, od jak dawna
        """,
        "ile, ilu, jak często, ile lat",
        """
        obecny, obecna, obecne, obecnie, aktualny, aktualna, aktualnie, teraz, w tej chwili, ostatnio, ostatni raz,
        najnowszy, najnowsza, dotychczas, na razie
        """,
        """
        styczeń/stycznia/styczniu luty/lutego/lutym marzec/marca/marcu kwiecień/kwietnia/kwietniu maj
        czerwiec/czerwca/czerwcu lipiec/lipca/lipcu sierpień/sierpnia wrzesień/września październik listopad
        grudzień/grudnia poniedziałek wtorek/wtorku środa/środę czwartek piątek/piątku sobota niedziela
        dzień/dnia/dni tydzień/tygodnia/tygodniu/tygodnie weekend miesiąc/miesiące rok/roku/lata/lat wiosna/wiosną
        lato/latem jesień/jesienią zima/zimą jeden/jedną dwa/dwie trzy cztery pięć sześć siedem osiem dziewięć
        dziesięć kilka/parę dziś/dzisiaj wczoraj jutro zeszły/ostatni/ubiegły/poprzedni następny/przyszły
        ten/ta/to/tym od przed/do po w/we temu między a/i -
        """,
        (("alem", "ałem"), ("alam", "ałam"), ("ilem", "iłem"), ("ilam", "iłam"), ("ala", "ała"), ("ila", "iła"),
         ("al", "ał"), ("il", "ił"), ("ac", "ać"), ("ic", "ić"), ("yc", "yć")),
    ),
}  # fmt: skip

_STEMMED = """
    ar arabic, ca catalan, cs czech, el greek, eo esperanto, et estonian, eu basque, fa persian, ga irish, hi hindi,
    hu hungarian, hy armenian, id indonesian, lt lithuanian, ne nepali, ro romanian, sr serbian, st sesotho, ta tamil,
    tr turkish, yi yiddish
"""
LANGUAGES |= {code: Language(name) for code, name in (each.split() for each in _STEMMED.split(","))}

_NAMED = {row.stemmer: code for code, row in LANGUAGES.items()} | {"english": "en", "nb": "no", "nn": "no"}
_CODE = re.compile(r"[a-z]{2,3}|none")


def code_of(language: str) -> str | None:
    """The code by which a language is known here; None if this is neither a code nor the name of one that is.

    >>> [code_of(language) for language in ("de-AT", "German", "en_US", "zh", "none", "germn")]
    ['de', 'de', 'en', 'zh', 'none', None]
    """
    written = language.strip().lower().replace("_", "-")
    code = _NAMED.get(written.partition("-")[0], written.partition("-")[0])
    return code if code in LANGUAGES or _CODE.fullmatch(code) else None
